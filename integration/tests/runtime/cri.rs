//! A client of the runtime's own interface, as kubelet is one.

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_cri::v1::image_service_client::ImageServiceClient;
use k8s_cri::v1::runtime_service_client::RuntimeServiceClient;
use k8s_cri::v1::{
    ImageSpec, ImageStatusRequest, ListPodSandboxRequest, PodSandboxConfig,
    PodSandboxStatusRequest, PodSandboxStatusResponse, RemovePodSandboxRequest,
    RunPodSandboxRequest, StatusRequest, StopPodSandboxRequest,
};
use linkerd_cni_integration::node::DEADLINE;
use linkerd_cni_integration::runtime::PAUSE;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Channel, Endpoint};

pub(crate) use self::containers::Executed;

mod containers;

/// A connection to a runtime.
pub(crate) struct Cri {
    runtime: Runtime,
    client: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
}

/// What a call came to; the error is the runtime's message.
pub(crate) type Answer<T> = Result<T, String>;

// === impl Cri ===

impl Cri {
    /// Connects, and waits until the runtime knows the image of the sandboxes.
    pub(crate) fn connect(socket: &Path) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let uri = format!("unix://{}", socket.display());
        let channel = runtime.block_on(Endpoint::from_shared(uri).unwrap().connect());
        let channel = channel.unwrap();
        let cri = Self {
            runtime,
            client: RuntimeServiceClient::new(channel.clone()),
            images: ImageServiceClient::new(channel),
        };
        cri.wait_image(PAUSE);
        cri
    }

    /// Waits until the runtime knows an image.
    pub(crate) fn wait_image(&self, image: &str) {
        let until = Instant::now() + DEADLINE;
        while !self.has_image(image) {
            assert!(Instant::now() < until, "{image} is not known");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts a sandbox; returns its id.
    pub(crate) fn run(&self, config: &PodSandboxConfig) -> Answer<String> {
        let request = RunPodSandboxRequest {
            config: Some(config.clone()),
            runtime_handler: String::new(),
        };
        let answer = self
            .runtime
            .block_on(self.client.clone().run_pod_sandbox(request));
        let answer = answer.map_err(message)?;
        Ok(answer.into_inner().pod_sandbox_id)
    }

    /// Stops a sandbox: its network goes.
    pub(crate) fn stop(&self, id: &str) -> Answer<()> {
        let request = StopPodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        let answer = self
            .runtime
            .block_on(self.client.clone().stop_pod_sandbox(request));
        answer.map(drop).map_err(message)
    }

    /// Removes a sandbox.
    pub(crate) fn remove(&self, id: &str) -> Answer<()> {
        let request = RemovePodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        let answer = self
            .runtime
            .block_on(self.client.clone().remove_pod_sandbox(request));
        answer.map(drop).map_err(message)
    }

    /// The ids of all sandboxes, running or not.
    pub(crate) fn list(&self) -> Vec<String> {
        let request = ListPodSandboxRequest { filter: None };
        let answer = self
            .runtime
            .block_on(self.client.clone().list_pod_sandbox(request));
        let items = answer.unwrap().into_inner().items;
        items.into_iter().map(|item| item.id).collect()
    }

    /// All that the runtime tells of a sandbox.
    pub(crate) fn status(&self, id: &str) -> PodSandboxStatusResponse {
        let request = PodSandboxStatusRequest {
            pod_sandbox_id: id.to_owned(),
            verbose: true,
        };
        let answer = self
            .runtime
            .block_on(self.client.clone().pod_sandbox_status(request));
        answer.unwrap().into_inner()
    }

    /// The plugins of the network that the runtime has loaded from the
    /// configuration directory, in their order; empty if it has none.
    pub(crate) fn loaded(&self) -> Vec<String> {
        let request = StatusRequest { verbose: true };
        let answer = self.runtime.block_on(self.client.clone().status(request));
        let info = answer.unwrap().into_inner().info;
        let config: Value = serde_json::from_str(&info["cniconfig"]).unwrap();
        // The first network is that of the loopback, which is compiled in.
        let plugins = config.pointer("/Networks/1/Config/Plugins");
        let plugins = plugins.and_then(Value::as_array).into_iter().flatten();
        let types = plugins.filter_map(|plugin| plugin.pointer("/Network/type")?.as_str());
        types.map(str::to_owned).collect()
    }

    fn has_image(&self, image: &str) -> bool {
        let request = ImageStatusRequest {
            image: Some(ImageSpec {
                image: image.to_owned(),
                ..ImageSpec::default()
            }),
            verbose: false,
        };
        let answer = self
            .runtime
            .block_on(self.images.clone().image_status(request));
        // An error while the runtime still reads what it had before it ended.
        answer.is_ok_and(|answer| answer.into_inner().image.is_some())
    }
}

fn message(status: tonic::Status) -> String {
    status.message().to_owned()
}
