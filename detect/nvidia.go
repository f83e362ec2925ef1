package detect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/gpupool/gpupool"
)

// describeNVIDIA fills in an NVIDIA GPU's device, and tells whether this process
// can use it.
func (h *host) describeNVIDIA(g *gpu) (usable bool, err error) {
	name := "proc/driver/nvidia/gpus/" + g.address.String() + "/information"
	text, err := h.readText(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // hidden from this container; see checkUnexplained
	}
	if err != nil {
		return false, err
	}
	info, err := parseInformation(text)
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	g.minor = info.minor
	g.device.UUID = info.uuid
	g.device.Name = cmp.Or(info.model, h.nameByIDs(g))
	there, err := h.deviceFile("dev/nvidia" + strconv.Itoa(g.minor))
	return there && !info.excluded, err
}

// information is what the NVIDIA driver tells of a GPU.
type information struct {
	model    string // or "" if it does not know
	uuid     string // or "" before it has initialised the GPU
	minor    int
	excluded bool
}

func parseInformation(text string) (information, error) {
	info := information{minor: -1}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "Model":
			if value != "Unknown" {
				info.model = value
			}
		case "GPU UUID":
			if strings.HasPrefix(value, "GPU-") && !strings.Contains(value, "?") {
				info.uuid = value
			}
		case "Device Minor":
			minor, err := strconv.ParseUint(value, 10, 20)
			if err != nil {
				return information{}, fmt.Errorf("its Device Minor %.20q is not a number", value)
			}
			info.minor = int(minor)
		case "GPU Excluded":
			info.excluded = value == "Yes"
		}
	}
	if info.minor < 0 {
		return information{}, errors.New("no Device Minor")
	}
	return info, nil
}

var nvidiaPattern = regexp.MustCompile(`^nvidia([0-9]+)$`)

// checkUnexplained looks for NVIDIA device files that belong to none of the GPUs
// that the driver tells of. A GPU that it does not tell of is usually one that
// this container was not given, and then its device file is not here either.
// With a file left over, it may well be usable, and it cannot be told which it
// is.
func (h *host) checkUnexplained(gpus []*gpu) error {
	var untold []string
	told := map[string]bool{}
	for _, g := range gpus {
		switch {
		case g.maker.vendor != gpupool.VendorNVIDIA:
		case g.minor >= 0:
			told[strconv.Itoa(g.minor)] = true
		default:
			untold = append(untold, g.address.String())
		}
	}
	if len(untold) == 0 {
		return nil
	}
	entries, err := fs.ReadDir(h.root, "dev")
	if err != nil {
		return fmt.Errorf("gpupool: detect GPUs: %w", err)
	}
	for _, entry := range entries {
		minor := nvidiaPattern.FindStringSubmatch(entry.Name())
		if minor != nil && !told[minor[1]] {
			return fmt.Errorf("gpupool: GPU %s: proc/driver/nvidia/gpus has no usable entry for it, and so /dev/%s cannot be told to be its own",
				strings.Join(untold, ", "), entry.Name())
		}
	}
	return nil
}
