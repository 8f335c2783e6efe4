// Read by MathJax when it loads; without a network the formulas stay as TeX.
window.MathJax = {
  tex: { inlineMath: [["\\(", "\\)"]], displayMath: [["\\[", "\\]"]] },
  options: { processHtmlClass: "arithmatex", ignoreHtmlClass: ".*|" },
};
