"""The certificate: how wide those integers must be for the accuracy asked for, proved from the data."""
