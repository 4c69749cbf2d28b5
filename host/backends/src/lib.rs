//! Stores behind agent-core's ports.
