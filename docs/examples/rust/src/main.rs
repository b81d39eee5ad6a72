// SPDX-License-Identifier: Apache-2.0
//! Moves bytes from worker A to worker B: cargo run -- http://HOST-A:PORT http://HOST-B:PORT
use serde_json::{from_slice, json, Value};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn send(request: minreq::Request) -> Result<Vec<u8>> {
    let answer = request.send()?;
    if answer.status_code >= 300 {
        return Err(answer.as_str()?.into());
    }
    Ok(answer.into_bytes())
}

fn post(url: String, body: Value) -> Result<Value> {
    let request = minreq::post(url).with_header("Content-Type", "application/json").with_body(body.to_string());
    Ok(from_slice(&send(request)?)?)
}

fn id(value: &Value) -> &str {
    value["id"].as_str().unwrap_or_default()
}

fn main() -> Result<()> {
    let urls: Vec<String> = std::env::args().skip(1).map(|url| url + "/v1").collect();
    let (a, b) = (&urls[0], &urls[1]);
    let bytes = b"ferry..\n".repeat(1 << 17);
    let source = post(format!("{a}/regions"), json!({ "size": bytes.len() }))?;
    let target = post(format!("{b}/regions"), json!({ "size": bytes.len() }))?;
    send(minreq::put(format!("{a}/regions/{}/content", id(&source))).with_body(bytes.clone()))?;

    let offer = post(
        format!("{a}/operations?include=metadata"),
        json!({ "kind": "readable", "descriptors": [{ "region": source["id"] }] }),
    )?;
    let read = post(
        format!("{b}/operations"),
        json!({ "kind": "read", "descriptors": [{ "region": target["id"] }], "remote_metadata": offer["metadata"] }),
    )?;
    let read: Value = from_slice(&send(minreq::get(format!("{b}/operations/{}?wait_ms=30000", id(&read))))?)?;
    println!("{} {} {} us", read["status"], read["transport"], read["duration_us"]);

    let moved = send(minreq::get(format!("{b}/regions/{}/content", id(&target))))?;
    println!("{}", if moved == bytes { "same" } else { "different" });
    send(minreq::delete(format!("{a}/regions/{}", id(&source))))?;
    send(minreq::delete(format!("{b}/regions/{}", id(&target))))?;
    Ok(())
}
