// SPDX-License-Identifier: Apache-2.0

// The whole cycle by the client that oapi-codegen makes of openapi.yaml: client URL-A URL-B
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"ferryclient/ferry"
)

var ctx = context.Background()

// What every answer of the generated client has.
type answer interface{ StatusCode() int }

func done[T answer](got T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	if got.StatusCode() >= 300 {
		log.Fatalf("status %d: %+v", got.StatusCode(), got)
	}
	return got
}

func connect(url string) *ferry.ClientWithResponses {
	client, err := ferry.NewClientWithResponses(url)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func of(region ferry.RegionId) []ferry.CreateDescriptor {
	return []ferry.CreateDescriptor{{Region: region}}
}

func p[T any](value T) *T { return &value }

func main() {
	a, b := connect(os.Args[1]), connect(os.Args[2])
	content := bytes.Repeat([]byte("ferry"), 1<<18)
	size := ferry.CreateRegion{Size: int64(len(content))}
	source := done(a.CreateRegionWithResponse(ctx, nil, size)).JSON201.Id
	target := done(b.CreateRegionWithResponse(ctx, nil, size)).JSON201.Id
	done(a.PutRegionContentWithBodyWithResponse(ctx, source, nil, "application/octet-stream", bytes.NewReader(content)))

	offer := done(a.CreateOperationWithResponse(ctx, &ferry.CreateOperationParams{
		Include: p(ferry.CreateOperationParamsIncludeMetadata),
	}, ferry.CreateOperation{Kind: ferry.Readable, Descriptors: of(source), Unlimited: p(true)})).JSON201
	if offer.Unlimited == nil || !*offer.Unlimited {
		log.Fatalf("the offer does not stand: %+v", offer)
	}
	begun := done(b.CreateOperationWithResponse(ctx, nil, ferry.CreateOperation{
		Kind: ferry.Read, Descriptors: of(target), RemoteMetadata: offer.Metadata,
	})).JSON201
	read := done(b.GetOperationWithResponse(ctx, begun.Id, &ferry.GetOperationParams{WaitMs: p(30000)})).JSON200
	fmt.Println(read.Status, *read.Transport, *read.DurationUs, "us")

	// The owner of an offer gets all of it, the holder of its key what became of it: by one type.
	renewal := ferry.RenewOperation{TtlMs: p(int64(600000))}
	if owned := done(a.RenewOperationWithResponse(ctx, offer.Id, nil, renewal)).JSON200; *owned.Id != offer.Id {
		log.Fatalf("another operation was renewed: %+v", owned)
	}
	held := done(a.CreateOperationWithResponse(ctx, &ferry.CreateOperationParams{
		Include: p(ferry.CreateOperationParamsIncludeMetadata),
	}, ferry.CreateOperation{Kind: ferry.Readable, Descriptors: of(source), RenewMaxMs: p(int64(900000))})).JSON201
	kept := done(a.RenewOperationWithResponse(ctx, held.Id, nil, renewal, func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+held.Metadata.NotificationKey)
		return nil
	})).JSON200
	if kept.Status != ferry.StatusINITIALIZED || kept.ExpiresAt == nil {
		log.Fatalf("the offer was not kept: %+v", kept)
	}

	// A batch: each result is an operation, or has a problem.
	results := done(a.CreateOperationsWithResponse(ctx, nil, ferry.CreateBatch{Operations: []ferry.CreateOperation{
		{Kind: ferry.Writable, Descriptors: of(source)}, {Kind: ferry.Writable, Descriptors: of(begun.Id)},
	}})).JSON200.Results
	if len(results) != 2 || results[0].Problem != nil || results[1].Problem == nil || results[1].Problem.Code != "not-found" {
		log.Fatalf("not an operation and a problem: %+v", results)
	}
	for _, id := range []ferry.OperationId{*results[0].Id, held.Id, offer.Id} {
		done(a.DeleteOperationWithResponse(ctx, id, nil))
	}
	for _, left := range done(a.ListOperationsWithResponse(ctx, nil)).JSON200.Operations {
		log.Fatalf("an operation is left: %+v", left)
	}
	peers := done(b.ListPeersWithResponse(ctx, nil)).JSON200.Peers
	events := done(b.ListEventsWithResponse(ctx, nil)).JSON200.Events
	if len(peers) != 1 || len(events) == 0 {
		log.Fatalf("%d peers, %d events", len(peers), len(events))
	}

	moved := done(b.GetRegionContentWithResponse(ctx, target, nil)).Body
	done(a.DeleteRegionWithResponse(ctx, source, nil))
	done(b.DeleteRegionWithResponse(ctx, target, nil))
	missing, err := a.GetRegionWithResponse(ctx, source, nil)
	if err != nil || missing.ApplicationproblemJSON404 == nil {
		log.Fatalf("a problem is not understood: %+v %v", missing, err)
	}
	if read.Status == ferry.StatusCOMPLETE && bytes.Equal(moved, content) {
		fmt.Println("same")
	}
}
