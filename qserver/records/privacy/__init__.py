"""The limit's unit: laws of noise and their losses, and rho as epsilon at a delta.

Begin with `noise_law`.
"""

from typing import Final, Literal, get_args

Privacy = Literal["pure", "zcdp"]
"""What a population's limit bounds: epsilon, or rho that is shown as epsilon at a delta."""
PRIVACIES: Final = get_args(Privacy)
