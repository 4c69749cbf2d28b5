//! What an artifact is made of, as values: an OCI image manifest with one layer, which is the component.
//!
//! It is the WebAssembly OCI artifact layout, as `wkg` writes and reads it. Two annotations of the manifest
//! are ours:
//!
//! - [`SIGNATURE`]: the 64 bytes of `<name>.wasm.sig` in base64. They cover the component and the name, so a
//!   signature that was moved here from another manifest holds for nothing.
//! - [`SIGNED_NAME`]: the name that the signature is for. It decides nothing; with it a mismatch can be
//!   explained.
//!
//! Nothing else in a manifest is acted upon but the digest and the size of the component.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::component_names::ComponentNames;
use crate::digest::Digest;
use crate::reference::shown;

pub(crate) const SIGNATURE: &str = "agent-host.component.signature";

pub(crate) const SIGNED_NAME: &str = "agent-host.component.name";

/// The media type of manifests that we write.
pub(crate) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

const CONFIG_TYPE: &str = "application/vnd.wasm.config.v0+json";
const COMPONENT_TYPE: &str = "application/wasm";
const INDEX_TYPES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];

/// What is asked for. Other kinds than ours are named so that a registry sends them as they are, and we can
/// say what it is.
pub(crate) const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

/// Bytes of a signature (RFC 8032).
pub(crate) const SIGNATURE_BYTES: usize = 64;

/// Most parts that a message lists.
const MOST_LISTED: usize = 8;

/// Why a manifest is not that of a component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error("its manifest cannot be read ({0}): have it published anew")]
    Unreadable(String),
    #[error(
        "it is an index, of one artifact for each platform, and components are the same everywhere. Name one of them by its \
         digest: {0}"
    )]
    Index(String),
    #[error(
        "it is of the media type {0}. A component is published with `agent-tool publish`, or with `wkg oci push`"
    )]
    Foreign(String),
    #[error(
        "it has the layers {0}, and a component is one layer of application/wasm: publish each component by itself, with \
         `agent-tool publish` or `wkg oci push`"
    )]
    Layers(String),
    #[error("its layer has the digest `{0}`; only sha256 is read: have it published anew")]
    Digest(String),
    #[error("its signature is not 64 bytes in base64: have it signed and published anew")]
    Signature,
}

/// What matters of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Artifact {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    pub(crate) signature: Option<Bytes>,
    pub(crate) signed_name: Option<String>,
}

/// What a manifest, a config and a component are pushed as.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) manifest: Bytes,
    pub(crate) config: Bytes,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    config: Descriptor,
    layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
}

/// What tells one kind of manifest from the next.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    media_type: Option<String>,
    manifests: Option<Vec<Member>>,
}

#[derive(Debug, Deserialize)]
struct Member {
    digest: String,
    platform: Option<Platform>,
}

#[derive(Debug, Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

/// The config of a component, as wkg reads it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    created: &'static str,
    architecture: &'static str,
    os: &'static str,
    layer_digests: [String; 1],
    component: Component<'a>,
}

#[derive(Debug, Serialize)]
struct Component<'a> {
    exports: &'a [String],
    imports: &'a [String],
}

impl Artifact {
    /// Reads a manifest. `content_type` is what it was sent as; what stands in it counts more.
    pub(crate) fn read(bytes: &[u8], content_type: Option<&str>) -> Result<Self, ManifestError> {
        let unreadable = |error: serde_json::Error| ManifestError::Unreadable(shown(&error.to_string()));
        let kind: Kind = serde_json::from_slice(bytes).map_err(unreadable)?;
        let sent_as = content_type.and_then(|text| text.split(';').next()).map(str::trim);
        let media_type = kind.media_type.as_deref().or(sent_as).unwrap_or(MANIFEST_TYPE);
        if kind.manifests.is_some() || INDEX_TYPES.contains(&media_type) {
            return Err(ManifestError::Index(list_members(&kind.manifests.unwrap_or_default())));
        }
        if media_type != MANIFEST_TYPE {
            return Err(ManifestError::Foreign(shown(media_type)));
        }
        let manifest: Manifest = serde_json::from_slice(bytes).map_err(unreadable)?;
        let [layer] = &manifest.layers[..] else { return Err(list_layers(&manifest)) };
        if layer.media_type != COMPONENT_TYPE {
            return Err(list_layers(&manifest));
        }
        let digest =
            Digest::parse(&layer.digest).ok_or_else(|| ManifestError::Digest(shown(&layer.digest)))?;
        let annotations = manifest.annotations.unwrap_or_default();
        let signature = annotations.get(SIGNATURE).map(|text| read_signature(text)).transpose()?;
        let signed_name = annotations.get(SIGNED_NAME).map(|name| shown(name));
        Ok(Self { digest, size: layer.size, signature, signed_name })
    }
}

impl Written {
    /// Writes the manifest and the config of a component. The same component gives the same bytes whenever it
    /// is published: that is why it was "created" at the beginning of time.
    pub(crate) fn new(
        component: &[u8],
        names: &ComponentNames,
        signed: Option<(&str, &[u8])>,
    ) -> serde_json::Result<Self> {
        let digest = Digest::of(component).to_string();
        let config = Config {
            created: "1970-01-01T00:00:00Z",
            architecture: "wasm",
            os: "wasip2",
            layer_digests: [digest.clone()],
            component: Component { exports: &names.exports, imports: &names.imports },
        };
        let config = serde_json::to_vec(&config)?;
        let annotations = signed.map(|(name, signature)| {
            BTreeMap::from([
                (SIGNATURE.to_owned(), BASE64.encode(signature)),
                (SIGNED_NAME.to_owned(), name.to_owned()),
            ])
        });
        let manifest = Manifest {
            schema_version: 2,
            media_type: Some(MANIFEST_TYPE.to_owned()),
            config: Descriptor::new(CONFIG_TYPE, &config),
            layers: vec![Descriptor::new(COMPONENT_TYPE, component)],
            annotations,
        };
        Ok(Self { manifest: serde_json::to_vec(&manifest)?.into(), config: config.into() })
    }
}

impl Descriptor {
    fn new(media_type: &str, content: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(content).to_string(),
            size: content.len() as u64,
        }
    }
}

fn read_signature(text: &str) -> Result<Bytes, ManifestError> {
    let bytes = BASE64.decode(text).map_err(|_| ManifestError::Signature)?;
    if bytes.len() != SIGNATURE_BYTES {
        return Err(ManifestError::Signature);
    }
    Ok(bytes.into())
}

fn list_layers(manifest: &Manifest) -> ManifestError {
    let types = manifest.layers.iter().map(|layer| shown(&layer.media_type));
    ManifestError::Layers(list(types, manifest.layers.len()))
}

fn list_members(members: &[Member]) -> String {
    let named = members.iter().map(|member| {
        let platform = member.platform.as_ref();
        let platform =
            platform.map(|platform| format!(" ({}/{})", shown(&platform.os), shown(&platform.architecture)));
        format!("{}{}", shown(&member.digest), platform.unwrap_or_default())
    });
    list(named, members.len())
}

/// The first few: a stranger's manifest may have thousands.
fn list(parts: impl Iterator<Item = String>, count: usize) -> String {
    let mut listed: Vec<_> = parts.take(MOST_LISTED).collect();
    if listed.is_empty() {
        return "none".to_owned();
    }
    if count > MOST_LISTED {
        listed.push(format!("and {} more", count - MOST_LISTED));
    }
    listed.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn what_is_written_is_read_back_and_the_same_every_time() {
        let names = ComponentNames { imports: vec!["a:b/c".into()], exports: vec!["agent:tool/tool".into()] };
        let unsigned = Written::new(b"component", &names, None).unwrap();
        insta::assert_snapshot!(std::str::from_utf8(&unsigned.manifest).unwrap());
        insta::assert_snapshot!(std::str::from_utf8(&unsigned.config).unwrap());
        let artifact = Artifact::read(&unsigned.manifest, None).unwrap();
        assert_eq!((artifact.digest, artifact.size), (Digest::of(b"component"), 9));
        assert_eq!((artifact.signature, artifact.signed_name), (None, None));
        assert_eq!(Written::new(b"component", &names, None).unwrap().manifest, unsigned.manifest);
        let signed = Written::new(b"component", &names, Some(("adder", &[7; 64]))).unwrap();
        let artifact = Artifact::read(&signed.manifest, Some("application/json")).unwrap();
        assert_eq!(artifact.signature.as_deref(), Some(&[7; 64][..]));
        assert_eq!(artifact.signed_name.as_deref(), Some("adder"));
    }

    /// As `wkg oci push` and ORAS write them: fields that we do not know, a config of another kind.
    #[test]
    fn manifests_of_others_are_read() {
        for config in ["application/vnd.wasm.config.v0+json", "application/vnd.oci.empty.v1+json"] {
            let text = format!(
                r#"{{"schemaVersion":2,"mediaType":"{MANIFEST_TYPE}","artifactType":"application/wasm",
                "config":{{"mediaType":"{config}","digest":"{EMPTY}","size":0,"data":"e30="}},
                "layers":[{{"mediaType":"application/wasm","digest":"{EMPTY}","size":0,
                "annotations":{{"org.opencontainers.image.title":"../../calculator.wasm"}}}}],
                "annotations":{{"org.opencontainers.image.created":"2026-01-01T00:00:00Z"}},"subject":null}}"#
            );
            assert_eq!(Artifact::read(text.as_bytes(), None).unwrap().digest, Digest::of(b""));
        }
    }

    #[test]
    fn what_is_no_component_is_refused_with_what_it_is() {
        let manifest = |layers: &[&str], more: &str| {
            let layers: Vec<_> = layers
                .iter()
                .map(|layer| format!(r#"{{"mediaType":"{layer}","digest":"{EMPTY}","size":0}}"#))
                .collect();
            format!(
                r#"{{"schemaVersion":2,"config":{{"mediaType":"x","digest":"{EMPTY}","size":0}},"layers":[{}]{more}}}"#,
                layers.join(",")
            )
        };
        let index = format!(
            r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[
            {{"mediaType":"m","digest":"{EMPTY}","size":1,"platform":{{"os":"linux","architecture":"arm64"}}}},
            {{"mediaType":"m","digest":"{EMPTY}","size":1}}]}}"#
        );
        let annotated = |value: &str| format!(r#","annotations":{{"{SIGNATURE}":"{value}"}}"#);
        let texts = [
            "<html>".to_owned(),
            "{}".to_owned(),
            index,
            r#"{"mediaType":"application/vnd.docker.distribution.manifest.v2+json"}"#.to_owned(),
            manifest(&[], ""),
            manifest(&["application/wasm", "application/wasm"], ""),
            manifest(&["application/vnd.oci.image.layer.v1.tar+gzip"], ""),
            manifest(&["a\u{1b}"; 20], "").replace('\u{1b}', "\\u001b"),
            manifest(&["application/wasm"], "").replace("sha256", "sha512"),
            manifest(&["application/wasm"], &annotated("AAAA")),
            manifest(&["application/wasm"], &annotated("no base64!")),
            manifest(&["application/wasm"], "").replace(r#""size":0"#, r#""size":-1"#),
        ];
        let said: Vec<_> =
            texts.iter().map(|text| Artifact::read(text.as_bytes(), None).unwrap_err().to_string()).collect();
        insta::assert_snapshot!(said.join("\n"));
    }
}
