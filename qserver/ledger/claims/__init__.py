"""How well the owner's claims can be known after the charges so far, at most."""
