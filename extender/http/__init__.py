"""HTTP: kube-scheduler's verbs and the pages for people, and who may send how much."""
