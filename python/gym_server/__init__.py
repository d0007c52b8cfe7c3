"""The server behind saccade_gym.py: Gymnasium environments over HTTP."""
