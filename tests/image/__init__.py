"""The Dockerfile without Docker: built in a Debian root, and run as the container of a pod."""
