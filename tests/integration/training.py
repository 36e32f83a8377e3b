"""Manifests that training-operator v1.9.3 ships for its kinds other than PyTorchJob, plus a queue."""

from __future__ import annotations

_HEADER = """
apiVersion: kubeflow.org/v1
kind: {kind}
metadata:
  name: {name}
  labels: {{kueue.x-k8s.io/queue-name: team-queue}}
spec:
  runPolicy: {{suspend: true}}
"""
# examples/tensorflow/dist-mnist/tf_job_mnist.yaml
_TENSORFLOW = """\
  tfReplicaSpecs:
    Chief:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: tensorflow
              image: ghcr.io/kubeflow/training-v1/tf-dist-mnist-test:latest
    PS:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: tensorflow
              image: ghcr.io/kubeflow/training-v1/tf-dist-mnist-test:latest
    Worker:
      replicas: 2
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: tensorflow
              image: ghcr.io/kubeflow/training-v1/tf-dist-mnist-test:latest
"""
# examples/xgboost/xgboost-dist/xgboostjob_v1_iris_train.yaml
_XGBOOST = """\
  xgbReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
          - name: xgboost
            image: ghcr.io/kubeflow/training-v1/xgboost-dist-iris:latest
            ports:
            - containerPort: 9991
              name: xgboostjob-port
            args: [--job_type=Train]
    Worker:
      replicas: 2
      restartPolicy: ExitCode
      template:
        spec:
          containers:
          - name: xgboost
            image: ghcr.io/kubeflow/training-v1/xgboost-dist-iris:latest
            ports:
            - containerPort: 9991
              name: xgboostjob-port
            args: [--job_type=Train]
"""
# examples/paddlepaddle/simple-gpu.yaml
_PADDLE = """\
  paddleReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: paddle
              image: registry.baidubce.com/paddlepaddle/paddle:2.4.0rc0-gpu-cuda11.2-cudnn8.1-trt8.0
              command: [python]
              args: ["-m", paddle.distributed.launch, "run_check"]
              ports:
                - containerPort: 37777
                  name: master
              resources:
                  limits:
                      nvidia.com/gpu: 2
              volumeMounts:
                - mountPath: /dev/shm
                  name: dshm
          volumes:
            - name: dshm
              emptyDir:
                medium: Memory
"""
# examples/jax/cpu-demo/demo.yaml
_JAX = """\
  jaxReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: jax
              image: ghcr.io/kubeflow/training-v1/jaxjob-simple:latest
              command: [python3, train.py]
"""
TRAINING = {
    "TFJob": _HEADER.format(kind="TFJob", name="dist-mnist-for-e2e-test") + _TENSORFLOW,
    "XGBoostJob": _HEADER.format(kind="XGBoostJob", name="xgboost-dist-iris-test-train") + _XGBOOST,
    "PaddleJob": _HEADER.format(kind="PaddleJob", name="paddle-simple-gpu") + _PADDLE,
    "JAXJob": _HEADER.format(kind="JAXJob", name="jaxjob-simple") + _JAX,
}
