//! HTTP as browsers, kept-alive clients and proxies see it.

mod browsers;
mod connections;
mod framing;
