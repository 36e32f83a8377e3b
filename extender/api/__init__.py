"""The models of the API: `observe` fills them, `http` answers with them, the command line reads them."""
