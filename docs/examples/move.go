// SPDX-License-Identifier: Apache-2.0

// Moves bytes from worker A to worker B: go run move.go http://HOST-A:PORT http://HOST-B:PORT
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

type object = map[string]any

func call(method, url, contentType string, body []byte) []byte {
	request, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		log.Fatal(answer.Status, err, string(text))
	}
	return text
}

func callJSON(method, url string, body any) (result object) {
	text, _ := json.Marshal(body)
	if err := json.Unmarshal(call(method, url, "application/json", text), &result); err != nil {
		log.Fatal(err)
	}
	return result
}

func main() {
	a, b := os.Args[1]+"/v1", os.Args[2]+"/v1"
	content := bytes.Repeat([]byte("ferry..\n"), 1<<17)
	size := object{"size": len(content)}
	source, target := callJSON("POST", a+"/regions", size), callJSON("POST", b+"/regions", size)
	sourceURL, targetURL := a+"/regions/"+source["id"].(string), b+"/regions/"+target["id"].(string)
	call("PUT", sourceURL+"/content", "application/octet-stream", content)

	offer := callJSON("POST", a+"/operations?include=metadata",
		object{"kind": "readable", "descriptors": []object{{"region": source["id"]}}})
	read := callJSON("POST", b+"/operations", object{"kind": "read",
		"descriptors": []object{{"region": target["id"]}}, "remote_metadata": offer["metadata"]})
	read = callJSON("GET", b+"/operations/"+read["id"].(string)+"?wait_ms=30000", nil)
	fmt.Println(read["status"], read["transport"], read["duration_us"], "us")

	if bytes.Equal(content, call("GET", targetURL+"/content", "", nil)) {
		fmt.Println("same")
	}
	call("DELETE", sourceURL, "", nil)
	call("DELETE", targetURL, "", nil)
}
