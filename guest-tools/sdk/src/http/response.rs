//! What a server answered.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// As the server sent it.
    pub body: Vec<u8>,
    /// Whether the server had more than was to be read.
    pub truncated: bool,
}

impl Response {
    /// A response without headers, for tests.
    #[must_use]
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), truncated: false }
    }

    /// Adds one more header to the response; its name in lower case.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The first header of that name (lower case).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone())
    }
}
