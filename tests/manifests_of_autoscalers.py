"""The kind by which nodes are asked for, as far as tests need it: of Cluster Autoscaler, autoscaling.x-k8s.io/v1."""

from __future__ import annotations

PROVISIONING_REQUESTS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: provisioningrequests.autoscaling.x-k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, for tests"}
spec:
  group: autoscaling.x-k8s.io
  names: {kind: ProvisioningRequest, listKind: ProvisioningRequestList, plural: provisioningrequests}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              required: [podSets, provisioningClassName]
              properties:
                podSets:
                  type: array
                  minItems: 1
                  maxItems: 32
                  items:
                    type: object
                    required: [count, podTemplateRef]
                    properties:
                      count: {type: integer, minimum: 1}
                      podTemplateRef:
                        type: object
                        required: [name]
                        properties:
                          name:
                            type: string
                            maxLength: 253
                            pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'
                provisioningClassName: {type: string, maxLength: 253}
                parameters: {type: object, maxProperties: 100, additionalProperties: {type: string, maxLength: 255}}
            status:
              type: object
              x-kubernetes-preserve-unknown-fields: true
"""
