"""The kinds of privacy that a population may have. It loads no numerics."""

from typing import Final, Literal, get_args

Privacy = Literal["pure", "zcdp"]
"""What a population's limit bounds: epsilon, or rho that is shown as epsilon at a delta."""
PRIVACIES: Final = get_args(Privacy)
