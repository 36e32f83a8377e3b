"""A node for every member of a gang: the request, the search over domains, and the rules that it keeps."""
