"""The Helm chart, and the command that makes its templates of the manifests: `make chart`."""
