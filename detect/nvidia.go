package detect

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
)

// describeNVIDIA fills in an NVIDIA GPU's device, and tells whether this process
// can use it.
func (h *host) describeNVIDIA(g *gpu) (usable bool, err error) {
	name := "proc/driver/nvidia/gpus/" + g.address.String() + "/information"
	text, err := h.readText(name)
	if errors.Is(err, fs.ErrNotExist) {
		g.untold = true
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
	g.device.Name = info.model
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
		case "GPU Excluded", "GPU Blacklisted": // the latter in drivers of old
			info.excluded = value == "Yes"
		}
	}
	if info.minor < 0 {
		return information{}, errors.New("no Device Minor")
	}
	return info, nil
}

var nvidiaPattern = regexp.MustCompile(`^nvidia([0-9]+)$`)

// checkUnexplained looks for NVIDIA device files that belong to no GPU. A GPU that
// the driver does not tell of is usually one that this container was not given,
// and then its device file is not here either. With a file left over, it may well
// be usable, and which it is cannot be told. The same goes for a file where the
// bus shows no NVIDIA GPU at all.
func (h *host) checkUnexplained(gpus []*gpu) error {
	var untold []string
	told := map[string]bool{}
	for _, g := range gpus {
		told[strconv.Itoa(g.minor)] = true
		if g.untold {
			untold = append(untold, g.address.String())
		}
	}
	entries, err := fs.ReadDir(h.root, "dev")
	if errors.Is(err, fs.ErrNotExist) && len(gpus) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("gpupool: detect GPUs: %w", err)
	}
	if h.nvidia && len(untold) == 0 {
		return nil // what is left over is from before a GPU's driver was changed
	}
	for _, entry := range entries {
		minor := nvidiaPattern.FindStringSubmatch(entry.Name())
		switch {
		case minor == nil || told[minor[1]]:
		case !h.nvidia:
			return fmt.Errorf("gpupool: there is a /dev/%s, but sysfs shows no NVIDIA GPU", entry.Name())
		default:
			h.unread = untold[0]
			return fmt.Errorf("gpupool: GPU %s: proc/driver/nvidia/gpus does not have it, and so /dev/%s cannot be told to be its own",
				strings.Join(untold, ", "), entry.Name())
		}
	}
	return nil
}
