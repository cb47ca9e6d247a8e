"""Drop-in functions with the signatures and return shapes of training frameworks; none of these frameworks is imported."""
