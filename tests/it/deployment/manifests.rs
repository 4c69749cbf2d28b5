//! Kubernetes' manifests, the systemd unit and the compose file: each is accepted by what reads it, they fit
//! each other, and they give the service the rights and the time that it needs and no more.

use std::fs;
use std::path::Path;
use std::process::Command;

use acceptance::{Model, Service, agent_host};
use serde_json::{Value, json};

use super::{KUBERNETES, list, manifest, manifests, place, python, run, shown, string, text, yaml};

/// The version of Kubernetes whose schemas the manifests are held against.
const VERSION: &str = "1.33";

/// How long the service may take to end after SIGTERM, in seconds
/// (host/docs/interface/errors-and-limits.md#limits).
const FORCED_END: u64 = 30;

const UNIT: &str = "systemd/agent-host.service";

/// What `systemd-analyze security` may find at most, times ten: 14 when this was written, and 96 without any
/// hardening.
const EXPOSURE: &str = "--threshold=20";

#[test]
fn every_manifest_is_valid_for_kubernetes() {
    let files = fs::read_dir(place(KUBERNETES)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    let version = ["-m", "kubernetes_validate", "--strict", "-k", VERSION];
    let output = run(python().args(version).args(&files));
    let said = shown(&output);
    assert!(output.status.success(), "{said}");
    for (file, document) in manifests() {
        let kind = string(&document["kind"]).to_lowercase();
        // KEDA's is not Kubernetes' own: the next test reads it.
        let is_known = said.contains(&format!("passed for resource {kind}/agent-host"));
        assert!(is_known || kind == "scaledobject", "{file}: {said}");
    }
}

/// The part of KEDA's definition that is used: nothing else may be there, so that a misspelt field is found.
#[test]
fn the_scaling_by_the_queue_is_as_keda_wants_it() {
    let object = |required: &[&str], properties: Value| json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false });
    let count = json!({ "type": "integer", "minimum": 0 });
    let name = json!({ "type": "string", "minLength": 1 });
    let target = json!({ "apiVersion": name, "kind": name, "name": name, "envSourceContainerName": name });
    // All values are texts, numbers too.
    let metadata = json!({ "serverAddress": name, "query": name, "threshold": { "type": "string", "pattern": "^[0-9.]+$" },
        "activationThreshold": { "type": "string" }, "namespace": name });
    let metadata = object(&["serverAddress", "query", "threshold"], metadata);
    let trigger =
        object(&["type", "metadata"], json!({ "type": { "const": "prometheus" }, "metadata": metadata }));
    let scaling = json!({ "type": { "enum": ["Pods", "Percent"] }, "value": count, "periodSeconds": count });
    let policies = json!({ "type": "array", "items": object(&["type", "value", "periodSeconds"], scaling) });
    let rules = object(&[], json!({ "stabilizationWindowSeconds": count, "policies": policies }));
    let behavior = object(&[], json!({ "scaleUp": rules, "scaleDown": rules }));
    let autoscaler = object(&[], json!({ "behavior": behavior, "name": name }));
    let advanced = object(&[], json!({ "horizontalPodAutoscalerConfig": autoscaler }));
    let fallback = json!({ "failureThreshold": count, "replicas": count });
    let spec = json!({
        "scaleTargetRef": object(&["name"], target), "pollingInterval": count, "cooldownPeriod": count,
        "minReplicaCount": count, "maxReplicaCount": count, "advanced": advanced,
        "fallback": object(&["failureThreshold", "replicas"], fallback),
        "triggers": { "type": "array", "minItems": 1, "items": trigger },
    });
    let schema = object(
        &["apiVersion", "kind", "metadata", "spec"],
        json!({ "apiVersion": { "const": "keda.sh/v1alpha1" }, "kind": { "const": "ScaledObject" },
            "metadata": { "type": "object" }, "spec": object(&["scaleTargetRef", "triggers"], spec) }),
    );
    let scaled = manifest("ScaledObject");
    let validator = jsonschema::validator_for(&schema).unwrap();
    let problems: Vec<_> = validator.iter_errors(&scaled).map(|error| error.to_string()).collect();
    assert_eq!(problems, [] as [String; 0]);
    let deployment = manifest("Deployment");
    let target = &scaled["spec"]["scaleTargetRef"];
    assert_eq!((&target["kind"], &target["name"]), (&deployment["kind"], &deployment["metadata"]["name"]));
    assert_eq!(deployment["spec"]["replicas"], Value::Null, "two would decide on the number of replicas");
}

#[test]
fn the_pod_has_no_right_that_it_does_not_need() {
    let pod = manifest("Deployment")["spec"]["template"]["spec"].take();
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    for container in list(&pod["containers"]) {
        let security = &container["securityContext"];
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["capabilities"], json!({ "drop": ["ALL"] }));
        assert!(container["resources"]["limits"]["memory"].is_string());
        assert!(container["resources"]["requests"]["cpu"].is_string());
    }
}

#[test]
fn the_manifests_name_each_other_as_they_are_called() {
    let template = manifest("Deployment")["spec"]["template"].take();
    let labels = template["metadata"]["labels"].as_object().unwrap();
    let selectors = [
        &manifest("Deployment")["spec"]["selector"]["matchLabels"],
        &manifest("Service")["spec"]["selector"],
        &manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        &manifest("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ];
    for selector in selectors {
        let selected = selector.as_object().unwrap();
        assert!(!selected.is_empty() && selected.iter().all(|(key, value)| labels.get(key) == Some(value)));
    }
    let container = &template["spec"]["containers"][0];
    let port = &container["ports"][0]["name"];
    assert_eq!(&manifest("Service")["spec"]["ports"][0]["targetPort"], port);
    assert_eq!(&manifest("NetworkPolicy")["spec"]["ingress"][0]["ports"][0]["port"], port);
    for (kind, source) in [("ConfigMap", "configMapRef"), ("Secret", "secretRef")] {
        let sources = list(&container["envFrom"]);
        let named = sources.iter().find_map(|one| one.get(source)).unwrap();
        assert_eq!(named["name"], manifest(kind)["metadata"]["name"]);
    }
}

#[tokio::test]
async fn the_probes_ask_what_the_service_answers() {
    let model = Model::openai().await;
    model.always(|_| acceptance::says("hello"));
    let service = Service::variant_b().model(&model).start().await;
    let container = manifest("Deployment")["spec"]["template"]["spec"]["containers"][0].take();
    let starts = &container["startupProbe"];
    let patience = starts["periodSeconds"].as_u64().unwrap() * starts["failureThreshold"].as_u64().unwrap();
    assert!(patience >= 600, "a migration would be killed after {patience} s");
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let asked = &container[probe]["httpGet"];
        assert_eq!(asked["port"], container["ports"][0]["name"], "{probe}");
        let answer = service.get(string(&asked["path"])).await;
        assert_eq!(answer.status, 200, "{probe}: {answer}");
    }
}

/// A kubelet makes the volume as root's, and folders of others are refused: the service makes one in there.
#[test]
fn compiled_tools_are_kept_in_a_folder_of_the_services_own() {
    let container = manifest("Deployment")["spec"]["template"]["spec"]["containers"][0].take();
    let of = |key: &str, name: &str| list(&container[key]).iter().find(|one| one["name"] == name).unwrap();
    let volume = Path::new(string(&of("volumeMounts", "cache")["mountPath"]));
    let folder = Path::new(string(&of("env", "TOOLS_CACHE_DIR")["value"]));
    assert!(folder.starts_with(volume) && folder != volume, "{}", folder.display());
}

/// What the example of the configuration names within the cluster, be it in a comment.
#[test]
fn the_network_policy_lets_the_service_reach_what_its_configuration_names() {
    let policy = manifest("NetworkPolicy");
    let mut allowed = Vec::new();
    for rule in list(&policy["spec"]["egress"]) {
        for port in list(&rule["ports"]) {
            let name =
                |to: &Value| to["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"].clone();
            allowed.extend(list(&rule["to"]).iter().map(|to| (name(to), port["port"].clone())));
        }
    }
    let config = text(Path::new(KUBERNETES).join("config.example.yaml"));
    let urls: Vec<_> = config.lines().filter_map(|line| Some(line.split_once("://")?.1)).collect();
    assert_eq!(urls.len(), 3, "{urls:?}");
    for url in urls {
        let address = url.rsplit('@').next().unwrap().split('/').next().unwrap();
        let (name, port) = address.rsplit_once(':').unwrap();
        let (_, namespace) = name.split_once('.').unwrap();
        let wanted = (Value::from(namespace), Value::from(port.parse::<u64>().unwrap()));
        assert!(allowed.contains(&wanted), "{address} is not among {allowed:?}");
    }
}

#[test]
fn whatever_stops_the_service_gives_it_the_time_that_it_may_take() {
    let pod = manifest("Deployment")["spec"]["template"]["spec"].take();
    let kubernetes = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    let compose = yaml("compose.yaml").remove(0);
    let grace = string(&compose["services"]["agent-host"]["stop_grace_period"]);
    let compose = grace.strip_suffix('s').unwrap().parse::<u64>().unwrap();
    let systemd = unit_value("TimeoutStopSec").parse::<u64>().unwrap();
    for given in [kubernetes, compose, systemd] {
        assert!(given > FORCED_END, "{given} s");
    }
}

/// The value of a key that the unit has once.
fn unit_value(key: &str) -> String {
    let unit = text(UNIT);
    let mut values = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let value = values.next().unwrap_or_else(|| panic!("the unit has no {key}"));
    assert_eq!(values.next(), None, "{key}");
    value.to_owned()
}

#[test]
fn systemd_reads_the_unit_and_finds_it_hardened() {
    // The program that it starts has to be there.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent-host.service");
    let installed = unit_value("ExecStart").split(' ').next().unwrap().to_owned();
    fs::write(&file, text(UNIT).replace(&installed, agent_host().to_str().unwrap())).unwrap();
    let output = run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file));
    // What it does not know it ignores, and says so.
    assert!(output.status.success() && !shown(&output).contains("agent-host.service"), "{}", shown(&output));
    let security = ["security", "--offline=true", "--no-pager", EXPOSURE];
    let output = run(Command::new("systemd-analyze").args(security).arg(&file));
    assert!(output.status.success(), "{}", shown(&output));
}

/// What host/docs/operate/stores.md says of jobs that were acknowledged holds for the stores of the compose
/// file.
#[test]
fn the_stores_of_the_compose_file_flush_before_they_answer_and_are_on_volumes() {
    let compose = yaml("compose.yaml").remove(0);
    let command = |service: &str| {
        let words = list(&compose["services"][service]["command"]).iter().map(string);
        words.collect::<Vec<_>>().join(" ")
    };
    for setting in ["--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction"] {
        assert!(command("redis").contains(setting), "{setting}");
    }
    for setting in ["fsync=on", "synchronous_commit=on"] {
        assert!(command("postgres").contains(&format!("-c {setting}")), "{setting}");
    }
    for (service, folder) in [("redis", "/data"), ("postgres", "/var/lib/postgresql/data")] {
        let volume = string(&compose["services"][service]["volumes"][0]);
        assert_eq!(volume, format!("{service}:{folder}"));
        assert!(compose["volumes"].get(service).is_some(), "{service}");
        let waits = &compose["services"]["agent-host"]["depends_on"][service]["condition"];
        assert_eq!(waits, "service_healthy");
        assert!(compose["services"][service]["healthcheck"]["test"].is_array(), "{service}");
    }
    assert_eq!(compose["services"]["agent-host"]["read_only"], true);
    assert!(
        place(Path::new(string(&compose["services"]["agent-host"]["build"])).join("Dockerfile")).exists()
    );
}
