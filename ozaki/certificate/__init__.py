"""The certificate: how wide those integers must be for the requested accuracy, proved from the data."""
