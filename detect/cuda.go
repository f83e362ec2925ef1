package detect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpupool/gpupool"
)

// visible leaves out the NVIDIA GPUs that CUDA_VISIBLE_DEVICES hides. All that
// are given can be used and are in PCI order; unread is a device that CUDA may
// count too. If the variable cannot be resolved it leaves out all of them.
func visible(gpus []*gpu, unread string, env func(string) (string, bool)) ([]*gpu, error) {
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
	c := cuda{nvidia, unread, order == "PCI_BUS_ID"}
	seen, err := c.visible(value)
	if err != nil {
		err = fmt.Errorf("gpupool: CUDA_VISIBLE_DEVICES=%q: %w", value, err)
	}
	return slices.DeleteFunc(gpus, func(g *gpu) bool {
		return g.maker.vendor == gpupool.VendorNVIDIA && !slices.Contains(seen, g)
	}), err
}

// cuda is what CUDA would number.
type cuda struct {
	gpus       []*gpu
	unread     string
	inPCIOrder bool
}

// visible returns the GPUs that CUDA would show: those of the entries up to the
// first that is not valid, as "-1" and "NoDevFiles" are not, or that is a number
// among UUIDs or the reverse. A repeated GPU makes CUDA show none. An entry such
// as "1x", of which CUDA reads the 1, is not valid here.
func (c cuda) visible(value string) ([]*gpu, error) {
	var seen []*gpu
	uuids := strings.HasPrefix(strings.TrimSpace(value), "GPU-")
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		var g *gpu
		var err error
		switch isUUID := strings.HasPrefix(entry, "GPU-"); {
		case strings.HasPrefix(entry, "MIG-"):
			err = fmt.Errorf("%s is a MIG slice, and a slice is not a GPU of the inventory: name whole GPUs by their UUIDs", entry)
		case isUUID != uuids:
		case isUUID:
			g, err = c.byUUID(entry)
		default:
			g, err = c.byOrdinal(entry)
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
func (c cuda) byUUID(prefix string) (*gpu, error) {
	var found, unknown []*gpu
	for _, g := range c.gpus {
		switch {
		case g.device.UUID == prefix:
			return g, nil
		case g.device.UUID == "":
			unknown = append(unknown, g)
		case strings.HasPrefix(g.device.UUID, prefix):
			found = append(found, g)
		}
	}
	if c.unread != "" {
		return nil, fmt.Errorf("whether %s is device %s cannot be told, which cannot be read", prefix, c.unread)
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
func (c cuda) byOrdinal(entry string) (*gpu, error) {
	n, err := strconv.ParseUint(entry, 10, 31)
	if err != nil {
		return nil, nil
	}
	if c.unread != "" {
		return nil, fmt.Errorf("which GPU is %s cannot be told while device %s cannot be read: "+
			"name the GPUs by their UUIDs", entry, c.unread)
	}
	if n >= uint64(len(c.gpus)) {
		return nil, nil
	}
	first := c.gpus[0]
	sameModel := !slices.ContainsFunc(c.gpus, func(g *gpu) bool {
		return g.id != first.id || g.device.Name != first.device.Name
	})
	if !c.inPCIOrder && !sameModel {
		return nil, fmt.Errorf("the GPUs are of different models, which CUDA numbers by its own idea of the fastest: "+
			"set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the GPUs by their UUIDs instead of %s", entry)
	}
	return c.gpus[n], nil
}
