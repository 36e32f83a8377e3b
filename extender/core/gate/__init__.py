"""The way from a plan to Bindings: kube-scheduler is led, bind requests are held, refusals and revocations end it."""
