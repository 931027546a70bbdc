"""What a statement of SQL gets without a measurement, and what its steps say together.

`first` answers from history alone, or raises the price. `steps` joins the answers of all steps.
"""
