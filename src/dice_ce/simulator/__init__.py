"""A simulator of capsule exams: endless material for demonstrations and tests that belongs to no patient."""

from .lesions import LESIONS
from .motion import CapsulePath, ExamScript, Pose, capsule_path
from .mucosa import Mucosa
from .samples import lesion_frames
from .scene import Field, Glimpse, Layer, Scene, Shot, build_scene, render, shoot
from .truth import Finding
from .view import View
from .write import SimulatedExam, simulate

__all__ = [
    "LESIONS",
    "CapsulePath",
    "ExamScript",
    "Field",
    "Finding",
    "Glimpse",
    "Layer",
    "Mucosa",
    "Pose",
    "Scene",
    "Shot",
    "SimulatedExam",
    "View",
    "build_scene",
    "capsule_path",
    "lesion_frames",
    "render",
    "shoot",
    "simulate",
]
