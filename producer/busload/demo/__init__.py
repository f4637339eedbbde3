"""`busload demo`: the product's main job on a real model, for a newcomer to see."""
