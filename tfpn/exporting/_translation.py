"""Translates TensorFlow's operations into those of ONNX."""

import logging
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
import tf2onnx
from onnx import TensorProto

from tfpn import files
from tfpn.exporting._functions import DOMAIN, OPSET, functions
from tfpn.types import Model, PathLike


def translate(predict: Any) -> Any:
    """Translates a concrete function with named outputs.

    Returns:
        The ONNX model, and the names of its operations that ONNX does not have.
    """
    logger = logging.getLogger("tf2onnx")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # the caller reports unsupported operations
    try:
        model = _converted(predict)
    finally:
        logger.setLevel(level)
    used = {node.op_type for node in _nodes(model) if node.domain == DOMAIN}
    model.functions.extend(function for function in functions() if function.name in used)
    return model, sorted({node.op_type for node in _nodes(model) if not _is_known(node)})


def write(model: Model, path: PathLike) -> None:
    """Checks an ONNX model and writes it."""
    onnx.checker.check_model(model)
    files.write(path, model.SerializeToString())


def _converted(predict):
    """The ONNX model of a concrete function; it keeps operations without an ONNX form."""
    inputs = [tensor.name for tensor in predict.inputs if tensor.dtype != tf.resource]
    outputs = [tensor.name for tensor in predict.outputs]
    names = {tensor.name: tensor.name.split(":")[0] for tensor in predict.inputs}
    names |= {tensor.name: key for key, tensor in predict.structured_outputs.items()}
    frozen = tf2onnx.tf_loader.from_function(predict, inputs, outputs)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(frozen, name="")
        converted = tf2onnx.tfonnx.process_tf_graph(
            graph,
            continue_on_error=True,
            opset=OPSET,
            custom_op_handlers={name: (handler, []) for name, handler in _HANDLERS.items()},
            extra_opset=[tf2onnx.utils.make_opsetid(DOMAIN, 1)],
            input_names=inputs,
            output_names=outputs,
            tensors_to_rename=names,
        )
        # Only sort the graph: tf2onnx's optimisers merge some reshapes wrongly, and runtimes
        # optimise a file when they load it.
        return tf2onnx.optimizer.optimize_graph(converted, optimizers={}).make_model("tfpn")


def _nodes(model):
    """All nodes of a model, including those in the bodies of its loops and conditions."""
    graphs = [model.graph]
    while graphs:
        for node in graphs.pop().node:
            yield node
            graphs += [a.g for a in node.attribute if a.HasField("g")]


def _is_known(node):
    return node.domain or onnx.defs.has(node.op_type)


# --- TensorFlow operations that tf2onnx does not translate, or translates wrongly for infinities


def _rename(node, name, domain=""):
    node.type, node.domain = name, domain
    for attribute in list(node.attr):
        del node.attr[attribute]


def _identity(graph, node, *_):
    _rename(node, "Identity")


def _select(graph, node, *_):
    # tf2onnx multiplies by 0 and 1, and 0 times infinity is NaN.
    _rename(node, "Where")


def _linear_algebra(graph, node, *_):
    name = node.type
    if name == "MatrixTriangularSolve":
        if not node.get_attr_value("lower", True):
            return  # the operation stays unknown
        name = "SolveLowerTransposed" if node.get_attr_value("adjoint", False) else "SolveLower"
    dtype = {TensorProto.FLOAT: "float", TensorProto.DOUBLE: "double"}[
        graph.get_dtype(node.output[0])
    ]
    _rename(node, f"{name}_{dtype}", DOMAIN)


def _erfc(graph, node, *_):
    if graph.get_dtype(node.output[0]) == TensorProto.DOUBLE:
        return _rename(node, "Erfc_double", DOMAIN)
    shapes, dtypes, outputs = node.output_shapes, node.output_dtypes, node.output
    graph.remove_node(node.name)
    erf = graph.make_node("Erf", node.input, shapes=shapes, dtypes=dtypes)
    one = graph.make_const(f"{node.name}_one", np.float32(1.0))
    graph.make_node(
        "Sub", [one.output[0], erf.output[0]], outputs=outputs, shapes=shapes, dtypes=dtypes
    )


_HANDLERS = {
    "Cholesky": _linear_algebra,
    "MatrixTriangularSolve": _linear_algebra,
    "Erfc": _erfc,
    "PreventGradient": _identity,
    "SelectV2": _select,
}
