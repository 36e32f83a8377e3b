// AppWrapper's controller and webhooks on loopback. Its own command serves its webhooks on port 9443 of all interfaces, and has no
// option for another place; this one starts the same packages with the configuration that they have by default.
package main

import (
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	awv1beta2 "github.com/project-codeflare/appwrapper/api/v1beta2"
	"github.com/project-codeflare/appwrapper/pkg/config"
	"github.com/project-codeflare/appwrapper/pkg/controller"
)

func main() {
	host := flag.String("host", "127.0.0.1", "where the webhooks are served")
	port := flag.Int("webhook-port", 9443, "the port of the webhooks")
	certificates := flag.String("cert-dir", "", "the directory with their tls.crt and tls.key")
	health := flag.String("health-probe-bind-address", "0", "where the probes are answered")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(*host, *port, *certificates, *health); err != nil {
		ctrl.Log.Error(err, "AppWrapper's controller has ended")
		os.Exit(1)
	}
}

func run(host string, port int, certificates, health string) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(awv1beta2.AddToScheme(scheme))
	kubeconfig, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	ctx, settings, ready := ctrl.SetupSignalHandler(), config.NewAppWrapperConfig(), make(chan struct{})
	manager, err := ctrl.NewManager(kubeconfig, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: health,
		WebhookServer:          webhook.NewServer(webhook.Options{Host: host, Port: port, CertDir: certificates}),
	})
	if err != nil {
		return err
	}
	if err := controller.SetupWebhooks(manager, settings); err != nil {
		return err
	}
	if err := controller.SetupControllers(manager, settings); err != nil {
		return err
	}
	if err := controller.SetupIndexers(ctx, manager, settings); err != nil {
		return err
	}
	// The certificates are there before it starts.
	close(ready)
	if err := controller.SetupProbeEndpoints(manager, ready); err != nil {
		return err
	}
	return manager.Start(ctx)
}
