// Command judge plays histories of a cluster on the proxiers of kube-proxy, with fakes in the place of the kernel. It reads
// cases from stdin, one JSON object a line, and writes an answer to each, one a line: see case.go.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

// modes has the function that plays a case once and returns its states after each step.
var modes = map[string]func(c *Case) (any, error){
	"ipvs":     playIPVS,
	"nftables": playNFTables,
	"iptables": playIPTables,
}

func main() {
	silenceLog()
	if err := answerAll(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
}

func silenceLog() {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
}

func answerAll(in io.Reader, out io.Writer) error {
	decoder := json.NewDecoder(bufio.NewReader(in))
	encoder := json.NewEncoder(out)
	for {
		c := &Case{}
		if err := decoder.Decode(c); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		answer := Answer{ID: c.ID}
		results, err := play(c)
		if err != nil {
			answer.Error = err.Error()
		} else {
			answer.Results = results
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
}

// play returns each different result of the runs of a case.
func play(c *Case) ([]json.RawMessage, error) {
	mode, ok := modes[c.Mode]
	if !ok {
		return nil, fmt.Errorf("no such mode: %q", c.Mode)
	}
	reset, err := setFeatureGates(c.Config.FeatureGates)
	if err != nil {
		return nil, err
	}
	defer reset()
	var results []json.RawMessage
	for run := 0; run < max(1, c.Runs); run++ {
		states, err := mode(c)
		if err != nil {
			return nil, err
		}
		result, err := json.Marshal(states)
		if err != nil {
			return nil, err
		}
		isKnown := false
		for _, known := range results {
			isKnown = isKnown || bytes.Equal(known, result)
		}
		if !isKnown {
			results = append(results, result)
		}
	}
	return results, nil
}
