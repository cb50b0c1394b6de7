//! The harness of the integration tests.
