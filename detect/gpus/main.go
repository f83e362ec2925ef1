// Command gpus lists the GPUs that this process may use, as a table or, with
// -json, as JSON: the inventory of a gpupool.GpuPool. Its output belongs in a
// bug report. What could not be told goes to stderr, and makes it exit with 1.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/gpupool/gpupool"
	"github.com/gpupool/gpupool/detect"
)

func main() {
	devices, err := detect.GPUs()
	os.Exit(run(os.Args[1:], devices, err, os.Stdout, os.Stderr))
}

// run prints what was detected, and returns the exit status.
func run(args []string, devices []gpupool.GpuDevice, detectErr error, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("gpus", flag.ContinueOnError)
	flags.SetOutput(stderr)
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "gpus: unexpected argument %q\n", flags.Arg(0))
		return 2
	}
	show := table
	if *asJSON {
		show = writeJSON
	}
	if len(devices) > 0 || detectErr == nil {
		if err := show(stdout, devices); err != nil {
			fmt.Fprintln(stderr, "gpus:", err)
			return 1
		}
	}
	if detectErr != nil {
		fmt.Fprintln(stderr, detectErr)
		return 1
	}
	return 0
}

func writeJSON(out io.Writer, devices []gpupool.GpuDevice) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(devices)
}

func table(out io.Writer, devices []gpupool.GpuDevice) error {
	if len(devices) == 0 {
		_, err := fmt.Fprintln(out, "no GPUs")
		return err
	}
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "INDEX\tVENDOR\tNAME\tPCI ADDRESS\tRENDER NODE\tUUID")
	for _, d := range devices {
		fmt.Fprintf(columns, "%d\t%s\t%s\t%s\t%s\t%s\n", d.Index, d.Vendor, d.Name, d.PCIAddress, d.RenderNode, d.UUID)
	}
	return columns.Flush()
}
