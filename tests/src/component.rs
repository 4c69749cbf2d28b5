//! Files for a tools folder: the components that were built, other versions of them, and what is none.

use sha2::{Digest as _, Sha256};

use crate::artifacts::built_component;

/// A file for a tools folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Name of the file in the folder, without `.wasm`.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The name and version of the interface that a tool exports, as it stands in the component's bytes.
const CONTRACT: &[u8] = b"agent:tool/tool@0.1.1";

impl Component {
    /// A file of that content.
    pub fn new(name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name: name.to_owned(), bytes: bytes.into() }
    }

    /// One that we ship: `calculator`, `clock`, `json-query` or `text-stats`.
    pub fn shipped(name: &str) -> Self {
        Self::new(name, built_component("tools", name))
    }

    /// One that misbehaves on purpose.
    pub fn misbehaving(name: &str) -> Self {
        Self::new(name, built_component("tools-misbehaving", name))
    }

    /// Names the component's file otherwise; the content stays.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Other bytes that do the same: a custom section more, which nobody reads.
    #[must_use]
    pub fn revision(mut self, number: u32) -> Self {
        const CUSTOM_SECTION: u8 = 0;
        let name = b"revision";
        let content =
            [&[u8::try_from(name.len()).expect("a short name")], &name[..], &number.to_le_bytes()].concat();
        // Below 128 a length is one byte in LEB128.
        let length =
            u8::try_from(content.len()).ok().filter(|length| *length < 128).expect("a short section");
        self.bytes.extend([CUSTOM_SECTION, length]);
        self.bytes.extend(content);
        self
    }

    /// A WebAssembly module that is no component: the shortest there is.
    pub fn core_module(name: &str) -> Self {
        Self::new(name, *b"\0asm\x01\0\0\0")
    }

    /// A component of many functions that do nothing sensible and take a while to compile. It is no tool: it
    /// is refused when it has been compiled.
    pub fn slow_to_compile(name: &str) -> Self {
        const FUNCTIONS: u32 = 150;
        let mut body = vec![0]; // no locals
        body.extend([0x20, 0]); // local.get 0
        for n in 0..2_000_u32 {
            // i32.const n, i32.rotl, local.get 0, i32.mul
            body.push(0x41);
            body.extend(leb128(n % 64));
            body.extend([0x77, 0x20, 0, 0x6c]);
        }
        body.push(0x0b); // end
        let body = [leb128(body.len()), body].concat();
        let bodies = (0..FUNCTIONS).flat_map(|_| body.iter().copied());
        let types = vec![1, 0x60, 1, 0x7f, 1, 0x7f]; // (i32) -> i32
        let functions = [leb128(FUNCTIONS), vec![0; FUNCTIONS as usize]].concat();
        let code = [leb128(FUNCTIONS), bodies.collect()].concat();
        let module =
            [b"\0asm\x01\0\0\0".to_vec(), section(1, types), section(3, functions), section(10, code)]
                .concat();
        let instance = vec![1, 1, 0]; // one, of no exports
        let export = [&[1, 0, 21][..], CONTRACT, &[5, 0, 0]].concat(); // that instance
        let bytes =
            [b"\0asm\x0d\0\x01\0".to_vec(), section(1, module), section(5, instance), section(11, export)]
                .concat();
        Self::new(name, bytes)
    }

    /// The file's name.
    pub fn file(&self) -> String {
        format!("{}.wasm", self.name)
    }

    /// `sha256:…` of the content.
    pub fn digest(&self) -> String {
        format!("sha256:{:x}", Sha256::digest(&self.bytes))
    }

    /// As it stands in receipts: `name@sha256:…`.
    pub fn id(&self) -> String {
        format!("{}@{}", self.name, self.digest())
    }
}

/// A section of a WebAssembly file.
fn section(id: u8, content: Vec<u8>) -> Vec<u8> {
    [vec![id], leb128(content.len()), content].concat()
}

/// A number as WebAssembly writes it.
fn leb128(number: impl TryInto<u64>) -> Vec<u8> {
    let mut number = number.try_into().ok().expect("a small number");
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A shipped component by its name.
impl From<&str> for Component {
    fn from(name: &str) -> Self {
        Self::shipped(name)
    }
}
