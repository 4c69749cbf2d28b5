//! What the edge promises, one file per promise. Requests go through the public router, without sockets
//! unless the promise is about one.

#[cfg(test)]
mod body_limits;
#[cfg(test)]
mod client_gone;
#[cfg(test)]
mod codings;
#[cfg(test)]
mod compression;
mod console;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod health;
#[cfg(test)]
mod idempotency;
#[cfg(test)]
mod index;
#[cfg(test)]
mod invocation;
#[cfg(test)]
mod malformed_bodies;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod observed;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod origins;
#[cfg(test)]
mod panics;
#[cfg(test)]
mod request_ids;
#[cfg(test)]
mod request_log;
#[cfg(test)]
mod unrouted;
#[cfg(test)]
mod variant_b;
