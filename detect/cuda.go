package detect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpupool/gpupool"
)

// visible leaves out the NVIDIA GPUs that CUDA_VISIBLE_DEVICES hides. All that
// are given can be used and are in PCI order. If the variable cannot be resolved
// it leaves out all of them.
func visible(gpus []*gpu, env func(string) (string, bool)) ([]*gpu, error) {
	value, set := env("CUDA_VISIBLE_DEVICES")
	var nvidia []*gpu
	for _, g := range gpus {
		if g.maker.vendor == gpupool.VendorNVIDIA {
			nvidia = append(nvidia, g)
		}
	}
	if !set || len(nvidia) == 0 {
		return gpus, nil
	}
	order, _ := env("CUDA_DEVICE_ORDER")
	seen, err := selectCUDA(nvidia, value, order == "PCI_BUS_ID")
	if err != nil {
		err = fmt.Errorf("gpupool: CUDA_VISIBLE_DEVICES=%q: %w", value, err)
	}
	return slices.DeleteFunc(gpus, func(g *gpu) bool {
		return g.maker.vendor == gpupool.VendorNVIDIA && !slices.Contains(seen, g)
	}), err
}

// selectCUDA returns the GPUs that CUDA would show: those of the entries up to
// the first that is not valid. "-1" and "NoDevFiles" are just that. A repeated
// GPU makes CUDA show none.
func selectCUDA(nvidia []*gpu, value string, inPCIOrder bool) ([]*gpu, error) {
	var seen []*gpu
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		var g *gpu
		var err error
		switch {
		case strings.HasPrefix(entry, "MIG-"):
			err = fmt.Errorf("%s is a MIG slice, and a slice is not a GPU of the inventory: name whole GPUs by their UUIDs", entry)
		case strings.HasPrefix(entry, "GPU-"):
			g, err = byUUID(nvidia, entry)
		default:
			g, err = byOrdinal(nvidia, entry, inPCIOrder)
		}
		if err != nil {
			return nil, err
		}
		if g == nil {
			break
		}
		if slices.Contains(seen, g) {
			return nil, nil
		}
		seen = append(seen, g)
	}
	return seen, nil
}

// byUUID returns the one GPU whose UUID begins so, or nil.
func byUUID(nvidia []*gpu, prefix string) (*gpu, error) {
	var found, unknown []*gpu
	for _, g := range nvidia {
		switch {
		case g.device.UUID == prefix:
			return g, nil
		case g.device.UUID == "":
			unknown = append(unknown, g)
		case strings.HasPrefix(g.device.UUID, prefix):
			found = append(found, g)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("whether %s is GPU %s cannot be told before the driver has initialised that: run nvidia-smi once",
			prefix, unknown[0].address)
	}
	if len(found) != 1 {
		return nil, nil
	}
	return found[0], nil
}

// byOrdinal returns the GPU that CUDA gives the number, or nil.
func byOrdinal(nvidia []*gpu, entry string, inPCIOrder bool) (*gpu, error) {
	n, err := strconv.ParseUint(entry, 10, 31)
	if err != nil || n >= uint64(len(nvidia)) {
		return nil, nil
	}
	first := nvidia[0]
	sameModel := !slices.ContainsFunc(nvidia, func(g *gpu) bool {
		return g.id != first.id || g.device.Name != first.device.Name
	})
	if !inPCIOrder && !sameModel {
		return nil, fmt.Errorf("the GPUs are of different models, which CUDA numbers by its own idea of the fastest: "+
			"set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the GPUs by their UUIDs instead of %s", entry)
	}
	return nvidia[n], nil
}
