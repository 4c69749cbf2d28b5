//! The HTTP edge: routers, extractors and error tables.
