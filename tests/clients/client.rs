// SPDX-License-Identifier: Apache-2.0

//! The whole cycle by the client that openapi-generator makes of openapi.yaml: client URL-A URL-B
#![deny(warnings)]

use ferry_client::apis::configuration::Configuration;
use ferry_client::apis::{events_api, operations_api as operations, peers_api, regions_api as regions, Error};
use ferry_client::models::{CreateBatch, CreateDescriptor, CreateOperation, CreateRegion, Kind, RenewOperation, Status};

type Done = Result<(), Box<dyn std::error::Error>>;

fn of(region: &str) -> Vec<CreateDescriptor> {
    vec![CreateDescriptor::new(region.to_string())]
}

async fn cycle(a: &Configuration, b: &Configuration) -> Done {
    let content = b"ferry".repeat(1 << 18);
    let file = std::env::temp_dir().join(format!("ferry-client-{}", std::process::id()));
    let size = CreateRegion::new(content.len() as i64);
    let source = regions::create_region(a, size.clone(), None, None).await?.id;
    let target = regions::create_region(b, size, None, None).await?.id;
    std::fs::write(&file, &content)?;
    let stored = regions::put_region_content(a, &source, file.clone(), None, None, None).await;
    std::fs::remove_file(&file)?;
    stored?;

    let mut spec = CreateOperation::new(Kind::Readable, of(&source));
    spec.unlimited = Some(true);
    let offer = operations::create_operation(a, spec, Some("metadata"), None, None, None).await?;
    assert_eq!(offer.unlimited, Some(true));
    let mut spec = CreateOperation::new(Kind::Read, of(&target));
    spec.remote_metadata = offer.metadata;
    let begun = operations::create_operation(b, spec, None, None, None, None).await?;
    let read = operations::get_operation(b, &begun.id, Some(30000), None, None, None, None).await?;
    println!("{:?} {:?} {:?} us", read.status, read.transport, read.duration_us);
    assert_eq!(read.status, Status::Complete);

    // The owner of an offer gets all of it, the holder of its key what became of it: by one type.
    let renewal = RenewOperation { ttl_ms: Some(600000) };
    let owned = operations::renew_operation(a, &offer.id, None, Some(renewal.clone())).await?;
    assert_eq!(owned.id, Some(offer.id.clone()));
    let mut spec = CreateOperation::new(Kind::Readable, of(&source));
    spec.renew_max_ms = Some(900000);
    let held = operations::create_operation(a, spec, Some("metadata"), None, None, None).await?;
    let mut holder = a.clone();
    holder.bearer_access_token = held.metadata.map(|metadata| metadata.notification_key);
    let kept = operations::renew_operation(&holder, &held.id, None, Some(renewal)).await?;
    assert_eq!((kept.status, kept.id, kept.expires_at.is_some()), (Status::Initialized, None, true));

    // A batch: each result is an operation, or has a problem.
    let batch = CreateBatch::new(vec![
        CreateOperation::new(Kind::Writable, of(&source)),
        CreateOperation::new(Kind::Writable, of(&begun.id)),
    ]);
    let results = operations::create_operations(a, batch, None, None, None, None).await?.results;
    assert!(results[0].problem.is_none());
    assert_eq!(results[1].problem.as_ref().map(|problem| problem.code.as_str()), Some("not-found"));
    for id in [results[0].id.as_ref().ok_or("no id")?, &held.id, &offer.id] {
        operations::delete_operation(a, id, None).await?;
    }
    assert_eq!(peers_api::list_peers(b, None, None, None, None, None).await?.peers.len(), 1);
    assert!(!events_api::list_events(b, None, None, None, None, None, None, None, None).await?.events.is_empty());

    let moved = regions::get_region_content(b, &target, None, None, None).await?.bytes().await?;
    regions::delete_region(a, &source, None).await?;
    regions::delete_region(b, &target, None).await?;
    match regions::get_region(a, &source, None, None, None).await {
        Err(Error::ResponseError(refused)) => assert_eq!(refused.status.as_u16(), 404),
        other => return Err(format!("a problem is not understood: {other:?}").into()),
    }
    println!("{}", if moved == content { "same" } else { "different" });
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let [a, b] = [1, 2].map(|i| Configuration {
        base_path: std::env::args().nth(i).unwrap_or_default(),
        client: ferry_client_http(),
        ..Configuration::default()
    });
    cycle(&a, &b).await
}

/// Loopback is reached without a proxy.
fn ferry_client_http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().expect("a client of HTTP")
}
