"""A simulator of capsule exams: endless material for demonstrations and tests that belongs to no patient."""

from .motion import CapsulePath, ExamScript, Pose, capsule_path
from .mucosa import Mucosa
from .scene import Field, Layer, Scene, build_scene, render
from .view import View
from .write import SimulatedExam, simulate

__all__ = [
    "CapsulePath",
    "ExamScript",
    "Field",
    "Layer",
    "Mucosa",
    "Pose",
    "Scene",
    "SimulatedExam",
    "View",
    "build_scene",
    "capsule_path",
    "render",
    "simulate",
]
