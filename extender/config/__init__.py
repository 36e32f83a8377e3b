"""The settings, and the policies that they can name: docs/configuration.md."""
