//! The agent-host binary: configuration, wiring, metrics, command line, shutdown.
