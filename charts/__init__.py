"""The Helm chart, and the command that makes its templates from manifests/ and its schema from the settings."""
