// SPDX-License-Identifier: Apache-2.0

// Decodes manifests into Kubernetes' own types: a field that they do not have, or of another type, is an error.
// scripts/check-deploy runs it.
package main

import (
	"bytes"
	"fmt"
	"os"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var kinds = map[string]func() any{
	"v1 Service":                         func() any { return new(core.Service) },
	"apps/v1 StatefulSet":                func() any { return new(apps.StatefulSet) },
	"networking.k8s.io/v1 NetworkPolicy": func() any { return new(networking.NetworkPolicy) },
}

func check(document []byte) error {
	var what meta.TypeMeta
	if err := yaml.Unmarshal(document, &what); err != nil {
		return err
	}
	kind := what.APIVersion + " " + what.Kind
	object, known := kinds[kind]
	if !known {
		return fmt.Errorf("%q is none of the kinds that this checks", kind)
	}
	return yaml.UnmarshalStrict(document, object())
}

func main() {
	failed := false
	for _, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		for n, document := range bytes.Split(text, []byte("\n---\n")) {
			if err == nil {
				err = check(document)
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s, document %d: %v\n", path, n+1, err)
				failed, err = true, nil
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}
