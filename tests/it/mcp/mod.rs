//! The tools as an MCP server, as the protocol's official clients find it: the SDKs in Python and TypeScript
//! and the inspector, over HTTP and over the standard input and output; and the tools of their servers, as
//! the service finds them. The programs are in tests/mcp/.

mod clients;
mod http;
mod inspector;
mod progress;
mod servers;
mod stdio;
mod waiting;
