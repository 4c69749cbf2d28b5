//! The sources as they are.

crate::subjects::subjects!("real");
