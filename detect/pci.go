package detect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An address is a place on the PCI bus. Its text is what sysfs has, which need
// not sort as the numbers do.
type address struct {
	text                          string
	domain, bus, device, function uint64
}

func (a address) String() string { return a.text }

// folder is where sysfs describes the device, with a slash at its end.
func (a address) folder() string { return devicesFolder + "/" + a.text + "/" }

func (a address) compare(b address) int {
	return cmp.Or(
		cmp.Compare(a.domain, b.domain),
		cmp.Compare(a.bus, b.bus),
		cmp.Compare(a.device, b.device),
		cmp.Compare(a.function, b.function))
}

// Domains of more than four digits are those that Intel's VMD makes up.
var addressPattern = regexp.MustCompile(`^([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])$`)

func parseAddress(text string) (address, error) {
	parts := addressPattern.FindStringSubmatch(text)
	if parts == nil {
		return address{}, errors.New("not a PCI address")
	}
	var numbers [4]uint64
	for i := range numbers {
		numbers[i], _ = strconv.ParseUint(parts[i+1], 16, 64) // the pattern has digits only
	}
	return address{text, numbers[0], numbers[1], numbers[2], numbers[3]}, nil
}

// maxFile is more than any file of sysfs or procfs that is read here can have.
const maxFile = 4096

// readText returns a small file's text without the white space around it.
func (h *host) readText(name string) (string, error) {
	file, err := h.root.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > maxFile {
		return "", fmt.Errorf("%s: longer than %d bytes", name, maxFile)
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(text), "\uFFFD")), nil
}

// readHex returns a number that is written as 0x10de.
func (h *host) readHex(name string) (uint64, error) {
	text, err := h.readText(name)
	if err != nil {
		return 0, err
	}
	digits, ok := strings.CutPrefix(text, "0x")
	number, err := strconv.ParseUint(digits, 16, 32)
	if !ok || err != nil {
		return 0, fmt.Errorf("%s: %.20q is not a number such as 0x10de", name, text)
	}
	return number, nil
}

// exists tells whether there is a file, be it a link that leads nowhere here.
func (h *host) exists(name string) (bool, error) {
	_, err := fs.Lstat(h.root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// driver returns the name of the driver that a device is bound to, or "".
func (h *host) driver(name string) (string, error) {
	target, err := fs.ReadLink(h.root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return path.Base(target), nil
}

// deviceFile tells whether a device file is there. A folder in its place is what
// a container runtime makes when it is told to mount a file that is not there.
func (h *host) deviceFile(name string) (bool, error) {
	info, err := fs.Stat(h.root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && info.IsDir() {
		err = fmt.Errorf("/%s is a folder and not a device file", name)
	}
	return err == nil, err
}

var renderPattern = regexp.MustCompile(`^renderD[0-9]+$`)

// renderNode returns the path of the GPU's render node, or "" if it has none
// that this process can see.
func (h *host) renderNode(g *gpu) (string, error) {
	entries, err := fs.ReadDir(h.root, g.address.folder()+"drm")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return renderPattern.MatchString(e.Name()) })
	if i < 0 {
		return "", nil
	}
	name := "dev/dri/" + entries[i].Name()
	there, err := h.deviceFile(name)
	if err != nil || !there {
		return "", err
	}
	return "/" + name, nil
}

// nameByIDs names a GPU that does not tell its name.
func (h *host) nameByIDs(g *gpu) string {
	if h.ids == nil {
		h.ids = h.readIDs()
	}
	if name := findID(*h.ids, g.maker.id, g.id); name != "" {
		return name
	}
	return fmt.Sprintf("%s GPU 0x%04x", g.maker.brand, g.id)
}

// readIDs reads the host's PCI id list. Without one the names are poorer, which
// is no reason to fail.
func (h *host) readIDs() *string {
	var ids string
	for _, name := range []string{"usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids"} {
		if text, err := fs.ReadFile(h.root, name); err == nil {
			ids = string(text)
			break
		}
	}
	return &ids
}

// findID returns a device's name in a PCI id list, or "". The list has a line for
// each vendor, which begins with its id, and below it, indented by a tab, a line
// for each device.
func findID(ids string, vendor, device uint64) string {
	vendorLine, deviceLine := fmt.Sprintf("%04x ", vendor), fmt.Sprintf("\t%04x ", device)
	ours := false
	for line := range strings.Lines(ids) {
		switch {
		case strings.HasPrefix(line, "#"), strings.TrimSpace(line) == "":
		case !strings.HasPrefix(line, "\t"):
			ours = strings.HasPrefix(line, vendorLine)
		case ours && strings.HasPrefix(line, deviceLine):
			return strings.TrimSpace(strings.ToValidUTF8(line[len(deviceLine):], "\uFFFD"))
		}
	}
	return ""
}
