"""Encoders that people already have: published networks, ONNX files, own functions, fitted transformers.

`resolve` turns what the user gave into a `FrozenEncoder`. Every file ``from_NAME.py`` adds a scheme ``NAME:…``.
"""
