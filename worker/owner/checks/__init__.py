"""What the owner has checked: `doctor`, and the findings of each part."""
