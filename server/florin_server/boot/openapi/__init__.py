"""The OpenAPI document of the API: built with the generated code, served as it was built."""
