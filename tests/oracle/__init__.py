"""What pods of real manifests ask for, and on which of 22 real nodes kube-scheduler 1.37.2 lets them: Muster agrees."""
