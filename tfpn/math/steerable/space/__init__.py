r"""Fields in space: SO(3)-equivariant flows in spherical harmonics.

A field of spin l has 2 l + 1 channels, and a rotation R turns them by the orthogonal matrix D_l(R).
Equivariance of a generator says ``M(i R xi) = D(R) M(i xi) D(R)^-1`` for its symbol ``M(i xi) = C +
i xi.B - xi^T S xi``, and so does its exponential. With xi at radius r in direction u, ``E(r) =
exp(M(i r e_3))``, real spherical harmonics Y and the couplings C^L of `spherical`,

    E_ll'(xi) = sum_L e_L(r) sum_M Y_LM(u) C^L_M,    e_L = sqrt(4 pi / (2 L + 1)) sum C^L_0 E_ll'(r)

with L from ``|l - l'|`` to l + l'. At e_3 only the harmonics of M = 0 are not 0, which gives e_L.
E(r) commutes with rotations about e_3. So it is a complex matrix for each order m, between the
spins l >= |m|: one small exponential for each radius and order. A plane wave is

    exp(i xi.x) = 4 pi sum_LM i^L j_L(r |x|) Y_LM(u) Y_LM(x / |x|)

with spherical Bessel functions j_L. The Fourier integral of `tfpn.math.coupled` thus is, with x =
x1 - x2 and the length scale h,

    (A k)_ll'(x) = sum_L P_L(|x|) sum_M Y_LM(x / |x|) C^L_M
    P_L(R)       = sqrt(2 / pi) s^2 h^3 int_0^inf r^2 j_L(r R) i^L e_L(r) e^(-h^2 r^2 / 2) dr

and with E E^H in place of E for (A k A'). Generators are real, so ``i^L e_L`` is real: a profile is
one real number for each distance. Whatever quadrature gives the profiles, the result rotates
exactly as it should. `tfpn.math.steerable.radial` has the integral.

A generator that commutes with reflections too has entries only of even L or only of odd ones: the
inversion multiplies true fields of spin l by (-1)^l, pseudo ones by -(-1)^l, and Y_L by (-1)^L. All
this holds for any parity, and the entries of the other L are 0 up to rounding.

Spins are of real type: by Schur's lemma a mixing has one real number for each pair of copies. So
the mean over a field's components of its variance needs of the flows k and k' only the sums over
all components a of the output and b of the input

    sum_ab (A_k k)_ab(x) (K + S)^-1 (A_k' k)_ab(x)^T,    sqrt(2 / pi) s^2 h^3 int_0^inf r^2 sum_L
        (2 L + 1) / (4 pi) e_L^k(r) conj(e_L^k'(r)) e^(-h^2 r^2 / 2) dr

of what the observations explain, and of what is known before them.

A group (see `tfpn.math.steerable.interface`) is a part of rho that holds fields of the input. A
query point has a place for each wave P_L Y_LM to the output's spins, with K functionals: one for
each flow and part of rho. The couplings C^L turn the waves' means into fields. Because C^L is an
orthonormal basis, the sums over a and b above are sums over the waves.
"""

from tfpn.math.steerable.interface import Harmonics
from tfpn.math.steerable.space.flows import SpaceFlows, groups
from tfpn.math.steerable.space.kernels import cross_kernels, real_matrix
from tfpn.math.steerable.space.responses import covariance_features, fields_of

SPACE = Harmonics(
    dim=3,
    flow_type=SpaceFlows,
    groups=groups,
    kernels=cross_kernels,
    fields_of=fields_of,
    covariance_features=covariance_features,
    real_matrix=real_matrix,
)
