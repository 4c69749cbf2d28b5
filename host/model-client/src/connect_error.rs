//! Why a client of a provider cannot be set up. All of it is the operator's to mend; none of it needs the
//! network to be found out.

/// Why [`connect`](crate::connect) gives no model. Never holds a key.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No model was named.
    #[error("the model's name is empty")]
    Model,
    /// The key would not survive in a header.
    #[error("the API key holds characters that an HTTP header cannot carry")]
    Key,
    /// The base address cannot be used.
    #[error("the provider's base address {problem}")]
    Base {
        /// What is wrong with it, without its text: an address may hold a password.
        problem: &'static str,
    },
    /// The HTTP client cannot be built; usually the system has no certificate authorities.
    #[error("the HTTP client cannot be set up")]
    Client(#[source] outbound::TlsError),
}
